"""Questions beside the plan, each with its scenario and its answer."""
