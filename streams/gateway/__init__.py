"""What a gateway needs: the decisions read so far, folded into answers."""
