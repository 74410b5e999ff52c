"""The most that is free on any node of each group."""

import numpy as np

from fairlead_scheduler.engine.plan import fair_share_check, reason_rows


def test_the_most_free_of_a_group_is_that_of_its_nodes_and_at_least_zero() -> None:
    group = np.array([1, 0, 1, 2, 0], np.int32)
    free = np.array([[5, 1], [2, 9], [4, 7], [-3, -1], [8, 0]], np.int64)
    first, nodes = fair_share_check.group_by_node(group, 3)
    assert reason_rows.most_free(first, nodes, free).tolist() == [[8, 9], [5, 7], [0, 0]]


def test_a_pool_without_nodes_has_no_groups() -> None:
    first, nodes = fair_share_check.group_by_node(np.zeros(0, np.int32), 0)
    assert reason_rows.most_free(first, nodes, np.zeros((0, 2), np.int64)).shape == (0, 2)
