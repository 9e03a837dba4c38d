"""The workbench: results in the browser, served on this machine by `attlas serve`."""
