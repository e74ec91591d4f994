"""Every command: parse its options, connect processes, print, and end with one line of error."""
