"""Outside engines, one thin file each, found by their names like a stranger's."""
