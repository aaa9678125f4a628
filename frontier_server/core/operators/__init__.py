"""What operators ask for: lists, statistics, reasons, stories; and the changes that they make."""
