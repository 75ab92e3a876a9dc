# Has HammerDB's command line do one thing: `build` the schema of TPROC-C, or make one timed `run` on it; `check` only says
# whether all is there.
#
#   cd $HAMMERDB_HOME && tclsh8.6 drive.tcl check|build|run < OPTIONS
#
# A line of OPTIONS is a name and a value: host, port, sslmode, users (those that run), or what `diset tpcc` sets, without
# `pg_` (user, dbase, count_ware, duration ...). They come this way since the passwords among them are nobody else's.
#
# hammerdbcli reads its commands from a file that it is given. This is that file too: read first by tclsh, where it starts
# hammerdbcli, and then by that, where there are its commands, `diset` for one.

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

# `diset` only prints what it does not like.
proc option {dictionary key value} {
    diset $dictionary $key $value
    if {[dict get $::configpostgresql $dictionary $key] ne $value} {
        fail "$dictionary has no $key"
    }
}

proc run {} {
    loadscript
    vuset vu $::users
    # It comes back at once where the minutes are not whole ones.
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
    # What draws the charts of the web service is in the packages of HammerDB, not in its sources; nothing is drawn here.
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
