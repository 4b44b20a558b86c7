"""The search: fleets from the cheapest on, each replayed and judged, until one is proven."""
