# The fields of a bird strike that the models use: one JSON object of strings a line in, a smaller one a line out. POSIX awk.

{
	printf "{"
	keep("Flight Date", ",")
	keep("Airport Name", ",")
	keep("Phase of flight", ",")
	keep("Wildlife Size", ",")
	keep("Wildlife Species", ",")
	keep("Time of day", "}\n")
}

# keep prints a field of the object as it is written there, escapes included.
function keep(name, after,   start, rest) {
	start = index($0, "\"" name "\":\"")
	if (start == 0) {
		print "no field \"" name "\"" > "/dev/stderr"
		exit 1
	}
	rest = substr($0, start + length(name) + 4)
	match(rest, /^([^"\\]|\\.)*/)
	printf "\"%s\":\"%s\"%s", name, substr(rest, 1, RLENGTH), after
}
