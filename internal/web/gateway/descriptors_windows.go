package gateway

// descriptors returns how many files this process may have open; 0: it is not known.
func descriptors() int { return 0 }
