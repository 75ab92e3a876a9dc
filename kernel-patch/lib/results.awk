# Reads the output of running test programs, and prints a line for each test. The file `results` gets
# "ok|FAIL|skip <tab> program <tab> test". The kernel's selftests print TAP, Rust's tests a format of their own. A
# program that breaks off, or whose exit status and results disagree, is a failure of its own.

function result(outcome, test) {
    printf "   %-4s %s %s\n", outcome, program, test
    fflush()
    printf "%s\t%s\t%s\n", outcome, program, test >results
}

function tell_remarks() {
    for (i = 1; i <= remarks; i++) print "        " remark[i]
    remarks = 0
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
    if (failed) tell_remarks()
    program = ""
    next
}

/^1\.\.[0-9]+/ {
    planned = substr($1, 4) + 0
    next
}

/^running [0-9]+ tests?$/ {
    planned = $2
    next
}

/^(ok|not ok) [0-9]+/ {
    ran++
    outcome = /^not/ ? "FAIL" : /# SKIP/ ? "skip" : "ok"
    sub(/^(ok|not ok) [0-9]+ (- )?/, "")
    result(outcome, $0)
    if (outcome == "FAIL") {
        failed = 1
        tell_remarks()
    }
    remarks = 0
    next
}

match($0, /^test (.*) \.\.\. (ok|FAILED|ignored|SKIPPED)/, part) {
    ran++
    if (part[2] == "FAILED") failed = 1
    result(part[2] == "ok" ? "ok" : part[2] == "FAILED" ? "FAIL" : "skip", part[1])
    next
}

# pg_anker's own integration tests.
match($0, /^(ok|FAILED|skip) +([a-z_]+::[a-z_]+)/, part) {
    ran++
    if (part[1] == "FAILED") failed = 1
    result(part[1] == "FAILED" ? "FAIL" : part[1], part[2])
    if (part[1] == "FAILED") print "        " $0
    next
}

/^# (Starting|Totals|PASSED|FAILED)|^#  +(RUN|OK|FAIL)|^TAP version|^test result:|^@|^$/ { next }
{ remark[++remarks] = $0 }

END { if (program) result("FAIL", "ended with the guest") }
