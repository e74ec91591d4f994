"""The programs of the library, traced on shapes for the devices of a mesh: a file for each kind of work."""
