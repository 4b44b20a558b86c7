"""Every command as a call: `from planner import plan, simulate, study`. `merge analyze` is `merge_analyze`.

Calls give answers as data, print nothing, and raise `simulator.errors.InputError`, in lines for people, where a command
ends with exit code 2. The command line calls them too. Nothing is imported before it is needed.
"""
