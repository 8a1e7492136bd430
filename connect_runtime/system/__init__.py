"""Access to the operating system: threads, child processes, signals, files, the clock, TLS
certificates, log levels and the Java installation.

Other packages use this package instead of the standard library, so that every thread and process
has an owner that stops it. Main types: `ThreadGroup` and `ThreadPool` (`supervised_threads`),
`ChildProcess` (`child_processes`), `StopSignals` (`signals`), `SystemClock` (`system_clock`).

May import `connect_runtime.base` only.
"""
