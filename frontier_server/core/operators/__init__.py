"""The operators' requests: lists, statistics, reasons, stories and changes."""
