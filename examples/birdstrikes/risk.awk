# Total cost and risk class of a bird strike: one JSON object of strings a line in, one JSON object
# a line out. POSIX awk. The classes are explained in README.md; strike.go does the same in Go.
#
# A record that cannot be judged ends the program with status 1 and the reason on standard error.

{
	damage = field("Effect Amount of damage")
	size = field("Wildlife Size")
	phase = field("Phase of flight")
	cost = dollars("Cost Other") + dollars("Cost Repair")
	printf "{\"airport\":\"%s\",\"date\":\"%s\",\"total_cost\":%.0f,\"risk\":\"%s\"}\n", \
		field("Airport Name"), field("Flight Date"), cost, risk(damage, size, phase, cost)
}

function risk(damage, size, phase, cost) {
	if (damage !~ /^(None|Minor|Medium|Substantial|A|B|C)$/)
		fail("unknown damage \"" damage "\"")
	if (damage ~ /^(Substantial|A|B)$/ || cost >= 100000)
		return "severe"
	if (damage != "None" || cost > 0)
		return "high"
	if (size == "Large" || size == "Medium" && phase ~ /^(Take-off run|Climb)$/)
		return "moderate"
	return "low"
}

function dollars(name,   text) {
	text = field(name)
	if (text !~ /^[0-9]+$/)
		fail("\"" name "\" is no amount: \"" text "\"")
	return text + 0
}

# field returns a string of the object as it is written there, escapes included: good to be written
# again. A name inside another string cannot be taken for it, as that one's quotes are escaped.
function field(name,   start, rest) {
	start = index($0, "\"" name "\":\"")
	if (start == 0)
		fail("no field \"" name "\"")
	rest = substr($0, start + length(name) + 4)
	match(rest, /^([^"\\]|\\.)*/)
	return substr(rest, 1, RLENGTH)
}

function fail(reason) {
	print reason > "/dev/stderr"
	exit 1
}
