"""What operators ask for: lists, figures, reasons, stories; and the changes that they make."""
