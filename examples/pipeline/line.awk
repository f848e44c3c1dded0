# A judged strike as the line that somebody reads: kind is that of the message. POSIX awk.

{
	match($0, /"strike":"([^"\\]|\\.)*"/)
	strike = substr($0, RSTART + 9, RLENGTH - 9)
	match($0, /"p":[0-9.]*/)
	printf "{\"%s\":%s,%s}\n", kind, strike, substr($0, RSTART, RLENGTH)
}
