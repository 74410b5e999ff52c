-- Events that the log removed before this view had folded them: of `partition`, from one position
-- to the other. Until `repaired_ms` is set, jobs of that time may be shown wrongly, or not at all.
CREATE TABLE fairlead_lookout.gaps (
    partition int NOT NULL,
    from_position bigint NOT NULL,
    to_position bigint NOT NULL,
    noted_ms bigint NOT NULL,
    repaired_ms bigint,
    PRIMARY KEY (partition, from_position, to_position)
);
