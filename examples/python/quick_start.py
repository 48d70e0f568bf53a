"""Code in, result out: what was printed, what it came to, what went wrong, which files changed."""

from belljar import ExecutionPolicy, create_sandbox

with create_sandbox() as sandbox:
    result = sandbox.execute("print('hello')\n6 * 7")
    print(result.stdout, result.value, result.duration_ms < 1000)

    failed = sandbox.execute("1 / 0")
    print(failed.success, failed.error.name if failed.error else None)

    outside = sandbox.execute("open('/etc/passwd')")
    print(outside.error.message if outside.error else None)

    print(sandbox.validate_code("x = 1 +"))

with create_sandbox(policy=ExecutionPolicy(fuel_budget=10_000_000)) as sandbox:
    print(sandbox.execute("while True: pass").status.value)

with create_sandbox("javascript") as sandbox:
    print(sandbox.execute("[1, 2, 3].map(x => x * x)").value)
