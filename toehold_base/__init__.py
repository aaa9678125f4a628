"""What all programs of Toehold share beside the contract."""
