"""The choices of --log-format and --log-level, for programs that have no log unless they serve."""

FORMATS = ("auto", "json", "text")
LEVELS = ("debug", "info", "warning", "error")
