"""Tables made over in the background: compact, optimize, deduplicate.

`Table` calls these. Each plans first and then executes: a dry run returns the plan and touches nothing.
"""
