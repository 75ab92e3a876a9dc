# Prints every complaint in a kernel log with the lines after it and the test program that ran; exits with 1 if there
# was one.

{ sub(/\r$/, "") }

/running [a-z_0-9]+$/ { program = $NF }

/WARNING:|BUG[: ]|KASAN|Oops|Kernel panic|Call Trace:|general protection fault|[Uu]nable to handle/ ||
/Bad (page|rss-counter|swap)|swap_info_get:|Unused swap|non-zero pgtables|leaked/ ||
/INFO: |possible (circular|recursive) locking|inconsistent lock state|bad unlock balance/ ||
/soft lockup|blocked for more than/ ||
/unreferenced object|corruption|refcount_t:|UBSAN|page allocation failure|Out of memory|oom-kill/ {
    if (!until) print "   during " (program ? program : "boot") ":"
    complaints++
    until = NR + 25
}

NR <= until { print "   " $0 }
NR == until { until = 0 }

END { exit complaints > 0 }
