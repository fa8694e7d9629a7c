"""The program that a session's Python process runs.

The package travels to each worker over its channel, where loader.py loads it under the name
`async_repl`, on a private copy of the builtins. It can also be imported as it lies, by its tests
and by tools. Everything in it runs on CPython 3.9 and newer and needs nothing installed.

Modules import one another in this direction only, for their types too: from top to bottom, and in
a line from left to right. bootstrap runs before there is a package.

    main                                      the loop that serves commands
    execute, scripts, evaluate                a job: its life, a file that it runs, its code
    requests, completion, details             answers about the namespace
    branch, shared, idle, threads             the fork into the worker of another session
    hooks, libraries, forks, exit             what happens in and around a job, and at the end
    session                                   one object that holds the parts below
    report, errors, hints, excerpts, tasks    exceptions, top-level await
    console, questions, terminal, pools       standard input, pools of processes
    handles, figures, display                 what is shown besides text, and when
    bundles, pictures, plots, tables, images  how it is drawn or described
    debugger, classes, tracebacks             changes of the standard library
    processes, carry                          the same, for processes and threads
    interrupts, streams, routers, binary      signals, output
    channel                                   the socketpair to Go
    variables, views, shapes, names, sources  the namespace, its values and their code
    installed, environment, relatives         what is installed, /proc
    frames, descriptors, codec, loader        what all of it stands on
    protocols                                 types for the type checker only

A worker starts with main, execute, evaluate, hooks, forks, session, console, terminal, interrupts,
streams, routers, channel, names, sources, installed, environment, frames, descriptors, codec and
loader. It loads the others when they are first needed.
"""
