# The filter among the handlers of conformance_test.go: it does what its items say (see obey_test.go).

function count(file,    n, line) {
	while ((getline line < file) > 0)
		n++
	close(file)
	return n + 0
}

function note(file) {
	print "x" >> file
	close(file)
}

function await(file, n) {
	while (count(file) < n)
		system("sleep 0.01")
}

function leave(status) {
	print "last words" > "/dev/stderr"
	exit status
}

{ item[NR] = $0 }

END {
	for (i = 1; i <= NR; i++) {
		text = substr(item[i], 2, length(item[i]) - 2) # a JSON string
		space = index(text, " ")
		verb = space ? substr(text, 1, space - 1) : text
		arg = substr(text, length(verb) + 2)
		if (verb == "null") { print "null"; continue }
		if (verb == "size") { print NR; continue }
		if (verb == "short") continue
		if (verb == "long") print item[i]
		if (verb == "exit") leave(arg)
		if (verb == "tally" || verb == "third") {
			note(arg)
			if (verb == "tally" || count(arg) < 3)
				leave(3)
		}
		if (verb == "die") { note(arg); leave(3) }
		if (verb == "hang") system("exec sleep 1000")
		if (verb == "nap") system("exec sleep " arg / 1000)
		if (verb == "join" || verb == "quit") { note(arg); await(arg, 4) }
		if (verb == "quit") leave(3)
		if (verb == "slower") {
			note(arg)
			if (count(arg) == 1) {
				print "retry-after: 0.15" > "/dev/stderr"
				exit 75
			}
		}
		if (verb == "await") await(arg, 3)
		print item[i]
	}
}
