# Makes HammerDB's command line do one task: `build` the schema of TPROC-C, or make one timed `run` on it. `check` only
# tests whether everything is installed.
#
#   cd $HAMMERDB_HOME && tclsh8.6 drive.tcl check|build|run < OPTIONS
#
# Each line of OPTIONS is a name and a value. Names are host, port, sslmode, users (the number of virtual users), and
# options of `diset tpcc` without `pg_` (user, dbase, count_ware, duration ...). OPTIONS are read from standard input,
# so that nobody can see the passwords in a list of processes.
#
# This file is read twice. First tclsh reads it, and then it starts hammerdbcli. hammerdbcli reads its commands from a
# file, for which it is given this one. There commands such as `diset` exist.

proc fail {message} {
    puts "Error in drive.tcl: $message"
    exit 1
}

proc check {} {
    foreach needed {Thread sqlite3 Pgtcl} {
        if {[catch {package require $needed} message]} {
            fail "Tcl [info patchlevel] cannot load $needed: $message"
        }
    }
    if {[info commands pg_notice_handler] eq ""} {
        fail "Pgtcl [package present Pgtcl] has no pg_notice_handler: it is not Pgtcl-ng"
    }
    puts "Tcl [info patchlevel], Pgtcl [package present Pgtcl]"
}

# Sets an option. `diset` only prints its errors, so the value is compared afterwards.
proc option {dictionary key value} {
    diset $dictionary $key $value
    if {[dict get $::configpostgresql $dictionary $key] ne $value} {
        fail "$dictionary has no $key"
    }
}

proc run {} {
    loadscript
    vuset vu $::users
    # With whole minutes, vurun waits for the end of the run. Otherwise it returns at once, so wait here.
    vurun
    while {![vucomplete]} {
        after 200 {set ::waited 1}
        vwait ::waited
    }
    vudestroy
}

if {[info commands diset] eq ""} {
    fconfigure stdout -buffering line
    set task [lindex $argv 0]
    check
    if {$task eq "check"} {
        exit 0
    }
    # HammerDB's packages contain a library for the charts of its web service, its sources do not. It is not needed
    # here.
    if {[catch {package require ticklecharts}]} {
        package provide ticklecharts 0
    }
    set argv [list tcl auto [file normalize [info script]]]
    set argc [llength $argv]
    source hammerdbcli
} else {
    dbset db pg
    dbset bm TPC-C
    while {[gets stdin line] >= 0} {
        set name [lindex [split $line] 0]
        set value [string range $line [string length "$name "] end]
        switch $name {
            users { set users $value }
            host - port - sslmode { option connection pg_$name $value }
            default { option tpcc pg_$name $value }
        }
    }
    switch $task {
        build buildschema
        run run
        default { fail "there is no task $task" }
    }
    exit 0
}
