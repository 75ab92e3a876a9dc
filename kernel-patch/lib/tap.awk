# Reads what the selftests job says while it says it, and prints a line for each test. The file `results` gets
# "ok|FAIL|skip <tab> program <tab> test". A program that breaks off, or whose exit status and results disagree, is a
# failure of its own.

function result(outcome, test) {
    printf "   %-4s %s %s\n", outcome, program, test
    fflush()
    printf "%s\t%s\t%s\n", outcome, program, test >results
}

{ sub(/\r$/, "") }

/^@ program / {
    program = $3
    planned = -1
    ran = failed = remarks = 0
    next
}

/^@ exit / {
    if ($3 != 0 && $3 != 4 && !failed) result("FAIL", "exit status " $3)
    if (ran != planned) result("FAIL", ran " of " planned " tests ran")
    program = ""
    next
}

/^1\.\.[0-9]+/ {
    planned = substr($1, 4) + 0
    next
}

/^ok [0-9]+/ {
    ran++
    sub(/^ok [0-9]+ (- )?/, "")
    result(/# SKIP/ ? "skip" : "ok", $0)
    remarks = 0
    next
}

/^not ok [0-9]+/ {
    ran++
    failed = 1
    sub(/^not ok [0-9]+ (- )?/, "")
    result("FAIL", $0)
    for (i = 1; i <= remarks; i++) print "        " remark[i]
    remarks = 0
    next
}

/^# (Starting|Totals)|^#  +(RUN|OK|FAIL)|^TAP version|^@/ { next }
{ remark[++remarks] = $0 }

END { if (program) result("FAIL", "ended with the guest") }
