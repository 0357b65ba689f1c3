//! The text of `mpiexec --help`.

pub const TEXT: &str = "\
usage: mpiexec [options] PROGRAM [arguments] [: [options] PROGRAM [arguments] ...]

Starts the ranks of a job and stays until they have ended. Options may be written as for MPICH's or
Open MPI's launchers, with one dash or two, with '=' or a space before the value.

What to run
  -n N, -np N, -c N        ranks that run the next program (default 1; of one program with hosts named: the sum of their slots)
  :                        separates programs of one job
  -configfile FILE         programs from a file, one per line, # begins a comment
  -wdir DIR, -wd, --chdir  where the program runs
  -path DIRS               where to look for the program before PATH

Several hosts
  -host A,B:2, -H          hosts, with the ranks each takes before the next one does (default 1; all full: once more)
  -hostfile FILE, -f       the same from a file, one host per line, as A:2 or A slots=2; -machinefile likewise
  -ppn N, -npernode N      ranks per host
  --launcher WHAT          what starts ranks elsewhere: srun, prterun, hydra, or a path; local: nothing (FARPOST_LAUNCHER).
                           Default: srun inside a Slurm allocation, else prterun, else mpiexec.hydra
  --rsh-agent COMMAND      used in place of ssh to reach other hosts (FARPOST_RSH); -launcher-exec likewise
  --interface A,B          interfaces of the messages between ranks, by name (eth0, ib*), network (10.1.0.0/16) or
                           exclusion (!docker0): sets FARPOST_INTERFACE
  -iface NAME              network interface of that launcher's own connections

Environment
  -env NAME VALUE          set for the next program; -genv for all programs
  -x NAME[=VALUE]          export or set, for all programs
  -envall, -envnone, -envlist A,B   what the next program sees of mpiexec's environment; -genv... for all

Cores
  --bind-to WHAT           none, core, hwthread, socket, numa. Default: with a core for every rank, a share of the cores each,
                           idle ones first; nothing where fewer are allowed, or where OMP_NUM_THREADS or the like wants more than
                           a share has. A rank that starts more threads than that gets all cores back. Other launchers: none
  --map-by WHAT            slot, core, hwthread, socket, numa, node, with :PE=N for N cores a rank; ppr:N:node
  --use-hwthread-cpus      hardware threads count as cores
  --report-bindings        say which rank is bound where

Input and output
  -stdin RANK|all|none     who reads mpiexec's standard input (default 0)
  -l, -prepend-rank        begin lines with [rank]
  --tag-output             begin lines with [job,rank]<stream>
  --timestamp-output       begin lines with the time
  --merge-stderr-to-stdout one stream
  --output-filename DIR    write DIR/rank.N/stdout and DIR/rank.N/stderr instead
  -outfile-pattern NAME    write to files, %r stands for the rank, %h for the host; -errfile-pattern likewise

Other
  --timeout S              end the job after S seconds, exit code 124 (also MPIEXEC_TIMEOUT=S)
  --on-failure continue    when a rank fails, the others go on; its end is told and decides the exit code. MPI_Abort ends the
                           job all the same. Default: end. Also --enable-recovery, --continuous, -disable-auto-cleanup
  --waits-signal NAME      on this signal (USR1, USR2, HUP or QUIT) say what each rank waits for, and do not pass it on
  -env FARPOST_HANG_AFTER S   say so by itself when no rank has made progress for S seconds (default 30; 0: never)
  --check[=all|error]      look for mistakes of the program: collectives that differ, types, buffers, what is never freed or
                           received (docs/checking.md); all: tell every finding, error: end the job, exit code 1. Sets FARPOST_CHECK
  -env FARPOST_PORTALS W   where the program's Portals library runs: inline, generic or accelerated; for the last two each of its
                           hosts has an agent, a process beside the ranks whose end does not end the job
  -v, -q                   say what is done; do not say which launcher is used and how ranks failed
  --version, --help
  --oversubscribe, --allow-run-as-root, --rank-by, ...   accepted, not needed
  --mca NAME VALUE         accepted, without effect

The exit code is that of the first rank that failed: its own, the code given to MPI_Abort, or 128 + the signal that
killed it. When a rank fails, the others are ended (but see --on-failure). When a job is ended while ranks wait, a table says for
what. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP and
SIGCONT are passed on to the ranks; a second Ctrl-C kills them.
";
