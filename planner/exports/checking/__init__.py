"""The check beside an export: does what was deployed do what the plan says?"""
