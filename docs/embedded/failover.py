"""The primary is shut down, another member takes over, and PyMongo goes on."""

import sys

from pymongo import MongoClient
from pymongo.errors import AutoReconnect


def place_order(orders, item):
    """The application: what is under test."""
    return orders.insert_one({"item": item}).inserted_id


def test_orders_are_placed_through_a_failover(uri):
    client = MongoClient(uri)
    orders = client.shop.orders
    first = place_order(orders, "kettle")
    was_primary = client.primary
    try:
        client.admin.command("shutdown")
    except AutoReconnect:
        pass  # The server hangs up without an answer.

    second = place_order(orders, "teapot")
    assert client.primary != was_primary, "another member is primary"
    assert [found["_id"] for found in orders.find()] == [first, second]


if __name__ == "__main__":
    test_orders_are_placed_through_a_failover(sys.argv[1])
    print("two orders")
