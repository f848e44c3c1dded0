package gateway

// descriptors is how many files this process may have open; 0: it is not known.
func descriptors() int { return 0 }
