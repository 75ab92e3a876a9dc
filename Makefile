# Builds pg_anker for a PostgreSQL, and installs it there. docs/install.md says more.
#
#   make PG_CONFIG=/path/to/pg_config
#   sudo make install PG_CONFIG=/path/to/pg_config [DESTDIR=...]
#   sudo make uninstall PG_CONFIG=/path/to/pg_config [DESTDIR=...]

PG_CONFIG ?= pg_config
export PG_CONFIG DESTDIR

all install uninstall:
	@scripts/make $@

.PHONY: all install uninstall
