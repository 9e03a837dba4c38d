"""Tables to charts, tinted texts and a self-contained report. Nothing is computed here."""
