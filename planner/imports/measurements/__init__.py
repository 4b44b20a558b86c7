"""Files of other tools that measure: each reader gives the same records, and one writer makes profiles of them."""
