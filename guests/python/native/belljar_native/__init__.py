"""The driver's transport in an ordinary CPython (3.8 and later), inside a jail.

The driver itself is `belljar_guest`, the same as in the WebAssembly guest. Here is what
differs: `channel` speaks JSON-RPC with the host, `asking` is what a tool or `input()`
does with it, `loop` is a real event loop, `interrupts` handles SIGINT, `host` stands in
for the guest's C module, `older` bridges what older versions of CPython lack. `assemble`
puts it together, `serve` answers the host, `surroundings` is what it says first, `zygote`
forks sessions, `confinement` is where a fork becomes a jailed one.

The driver is no boundary: user code may do anything to its own process. The jail holds.
"""
