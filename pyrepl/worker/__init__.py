"""The program that a session's Python process runs.

The package travels to each worker over its channel, where loader.py loads it under the name
`async_repl`, on a private copy of the builtins. It can also be imported as it lies, by its tests
and by tools. Everything in it runs on CPython 3.9 and newer and needs nothing installed.

Modules import one another in this direction only, top to bottom:

    main                               the loop that serves commands
    execute, forks, hooks, exit        what happens in and around a job, and at the end
    session                            one object that holds the parts below
    report, tasks, console, scripts    exceptions, top-level await, standard input, files to run
    libraries, figures, display        what is shown besides text, and when
    bundles, pictures, plots, tables   how it is drawn or described
    images, views
    interrupts, streams, channel       signals, output, the socketpair to Go
    routers, binary, questions, hints, classes, carry, debugger, processes, installed, variables,
    shapes, names, sources, terminal, environment
    frames, descriptors, codec, loader

exit, report, tasks, libraries, figures, display and what they use, binary, questions, hints,
classes, carry, debugger, processes, scripts, variables and shapes are loaded when they are first
needed.
"""
