# Makes HammerDB's command line do one thing: `build` the schema of TPROC-C, or make one timed `run` on it. `check` only
# says whether everything is installed.
#
#   cd $HAMMERDB_HOME && tclsh8.6 drive.tcl check|build|run < OPTIONS
#
# A line of OPTIONS is a name and a value: host, port, sslmode, users (those that run), or what `diset tpcc` sets, without
# `pg_` (user, dbase, count_ware, duration ...). They come by standard input, where nobody else can read the passwords.
#
# hammerdbcli reads its commands from a file. This is that file, too: tclsh reads it first, where it starts hammerdbcli.
# Then hammerdbcli reads it, where commands such as `diset` exist.

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

# `diset` only prints its complaints.
proc option {dictionary key value} {
    diset $dictionary $key $value
    if {[dict get $::configpostgresql $dictionary $key] ne $value} {
        fail "$dictionary has no $key"
    }
}

proc run {} {
    loadscript
    vuset vu $::users
    # It returns at once if the minutes are not a whole number.
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
    # HammerDB's sources lack the library for the web service's charts, which its packages have; nothing is drawn here.
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
