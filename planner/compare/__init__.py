"""Two answers side by side: what differs and whether by more than chance; and an answer at other prices."""
