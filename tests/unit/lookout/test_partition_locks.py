"""How partitions are divided among processes."""

import pytest

from fairlead_lookout.store.fold import partition_locks


@pytest.mark.parametrize("folders", [1, 2, 3, 5, 31, 32, 40])
def test_shares_of_partitions_add_up_to_all(folders: int) -> None:
    shares = [partition_locks.fair_share(folders, rank) for rank in range(folders)]
    assert sum(shares) == 32
    assert max(shares) - min(shares) <= 1
