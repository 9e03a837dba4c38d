"""The basis of everything: errors, files, fingerprints, options. Imports no torch or numpy."""
