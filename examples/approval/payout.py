# Pays what a person has approved. The decisions may come days later, in another process.
import asyncio

requests = [{"to": "Ann", "amount": 120}, {"to": "Bob", "amount": 99_000}]
print(f"asking for {len(requests)} decisions")

decisions = await asyncio.gather(*(approve(request) for request in requests))

paid = 0
for request, decision in zip(requests, decisions):
    if decision["ok"]:
        paid += request["amount"]
        print(f"paid {request['amount']} to {request['to']}")
    else:
        print(f"did not pay {request['to']}: {decision['why']}")
paid
