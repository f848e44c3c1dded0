# What two models think of a strike becomes one opinion: the list of their answers a line in, one JSON object a line out. POSIX awk.

{
	split($0, answers, /"p":/) # the first two of which begin behind the text before them
	p = (answers[2] + answers[3]) / 2
	match($0, /"strike":"([^"\\]|\\.)*"/)
	printf "{%s,\"p\":%.3f,\"risk\":\"%s\"}\n", substr($0, RSTART, RLENGTH), p, (p >= 0.3 ? "high" : "low")
}
