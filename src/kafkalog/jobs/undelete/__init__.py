"""What a broker has deleted and not yet removed, put back."""
