# Reads a table, groups it, writes what came of it, and shows a chart.
import matplotlib.pyplot as plt
import pandas as pd

sales = pd.read_csv("sales.csv", parse_dates=["month"])
sales["revenue"] = sales.units * sales.price
table = sales.pivot_table(index="region", columns="product", values="revenue", aggfunc="sum")
table.to_csv("revenue.csv")
print(table.to_string())

table.plot(kind="bar", title="Revenue, first quarter", ylabel="money")
plt.savefig("revenue.png")
plt.show()
