"""What everything stands on: errors, files, fingerprints. No torch, numpy or pandas in here."""
