"""Records of `__cluster_metadata` and of its snapshots; Kafka's schemas are `metadata/src/main/resources`.

All are flexible.  A few early releases wrote other layouts under the same version: they stand behind the final one.
"""

from __future__ import annotations

from kafkalog.cluster.layout.message import Message, message

__all__ = ["FRAME_VERSION", "VALUES"]

FRAME_VERSION = 1
"""The only frame that Kafka reads; 0 was the preview's of 2.8."""

_END_POINTS = """
    end_points              []struct
        name                string
        host                string
        port                uint16
        security_protocol   int16
"""
_FEATURES = """
    features                   []struct
        name                   string
        min_supported_version  int16
        max_supported_version  int16
"""

_REGISTER_BROKER = message("RegisterBrokerRecord", """
    broker_id               int32
    is_migrating_zk_broker  bool   2+
    incarnation_id          uuid
    broker_epoch            int64
""" + _END_POINTS + _FEATURES + """
    rack                    string?
    fenced                  bool            = True
    in_controlled_shutdown  bool     1+
    log_dirs                []uuid   3+ tag 0
    cordoned_log_dirs       []uuid?  4+ tag 1  = None
    """, versions=4)  # fmt: skip

_PARTITION = message("PartitionRecord", """
    partition_id              int32             = -1
    topic_id                  uuid
    replicas                  []int32
    isr                       []int32
    removing_replicas         []int32
    adding_replicas           []int32
    leader                    int32             = -1
    leader_epoch              int32             = -1
    partition_epoch           int32             = -1
    directories               []uuid    1+
    leader_recovery_state     int8      0+ tag 0  = 0
    eligible_leader_replicas  []int32?  2+ tag 1  = None
    last_known_elr            []int32?  2+ tag 2  = None
    """, versions=2)  # fmt: skip

_PARTITION_CHANGE = message("PartitionChangeRecord", """
    partition_id              int32               = -1
    topic_id                  uuid
    isr                       []int32?  0+ tag 0  = None
    leader                    int32     0+ tag 1  = -2
    replicas                  []int32?  0+ tag 2  = None
    removing_replicas         []int32?  0+ tag 3  = None
    adding_replicas           []int32?  0+ tag 4  = None
    leader_recovery_state     int8      0+ tag 5  = -1
    eligible_leader_replicas  []int32?  2+ tag 6  = None
    last_known_elr            []int32?  2+ tag 7  = None
    directories               []uuid?   1+ tag 8  = None
    """, versions=2)  # fmt: skip

_ACL = """
    resource_type    int8
    resource_name    {name}
    pattern_type     int8
    principal        string
    host             string
    operation        int8
    permission_type  int8
"""
_DELEGATION = """
    renewers              []string
    issue_timestamp       int64
    max_timestamp         int64
    expiration_timestamp  int64
    token_id              string
"""

VALUES: dict[int, tuple[Message, ...]] = {
    0: (_REGISTER_BROKER,),
    1: (message("UnregisterBrokerRecord", "    broker_id  int32\n    broker_epoch  int64"),),
    2: (message("TopicRecord", "    name  string\n    topic_id  uuid"),),
    3: (_PARTITION,),
    4: (message("ConfigRecord", """
    resource_type  int8
    resource_name  string
    name           string
    value          string?
    """),),
    5: (_PARTITION_CHANGE,),
    6: (message("AccessControlRecord", _ACL.format(name="string?"), written_by="2.8-3.2"),),
    7: (message("FenceBrokerRecord", "    id  int32\n    epoch  int64"),),
    8: (message("UnfenceBrokerRecord", "    id  int32\n    epoch  int64"),),
    9: (message("RemoveTopicRecord", "    topic_id  uuid"),),
    10: (
        message("DelegationTokenRecord", "    owner  string\n    requester  string" + _DELEGATION, written_by="3.6+"),
        message("DelegationTokenRecord", "    owner  string" + _DELEGATION, written_by="2.8-3.5"),
    ),
    11: (message("UserScramCredentialRecord", """
    name        string
    mechanism   int8
    salt        bytes
    stored_key  bytes
    server_key  bytes
    iterations  int32
    """),),
    12: (
        message("FeatureLevelRecord", "    name  string\n    feature_level  int16", written_by="3.3+"),
        message("FeatureLevelRecord", """
    name               string
    min_feature_level  int16
    max_feature_level  int16
    """, written_by="2.8-3.2"),
    ),
    14: (message("ClientQuotaRecord", """
    entity           []struct
        entity_type  string
        entity_name  string?
    key              string
    value            float64
    remove           bool
    """),),
    15: (message("ProducerIdsRecord", "    broker_id  int32\n    broker_epoch  int64\n    next_producer_id  int64"),),
    16: (message("RemoveFeatureLevelRecord", "    name  string", written_by="3.0-3.2"),),
    17: (message("BrokerRegistrationChangeRecord", """
    broker_id               int32
    broker_epoch            int64
    fenced                  int8     0+ tag 0  = 0
    in_controlled_shutdown  int8     1+ tag 1  = 0
    log_dirs                []uuid   2+ tag 2
    cordoned_log_dirs       []uuid?  3+ tag 3  = None
    """, versions=3),),
    18: (message("AccessControlEntryRecord", "    id  uuid" + _ACL.format(name="string")),),
    19: (message("RemoveAccessControlEntryRecord", "    id  uuid"),),
    20: (message("NoOpRecord", ""),),
    21: (message("ZkMigrationStateRecord", "    zk_migration_state  int8"),),
    22: (message("RemoveUserScramCredentialRecord", "    name  string\n    mechanism  int8"),),
    23: (message("BeginTransactionRecord", "    name  string?  0+ tag 0  = None"),),
    24: (message("EndTransactionRecord", ""),),
    25: (message("AbortTransactionRecord", "    reason  string?  0+ tag 0  = None"),),
    26: (message("RemoveDelegationTokenRecord", "    token_id  string"),),
    27: (message("RegisterControllerRecord", """
    controller_id       int32
    incarnation_id      uuid
    zk_migration_ready  bool
""" + _END_POINTS + _FEATURES),),
    28: (message("ClearElrRecord", "    topic_name  string"),),
    29: (message("UnregisterControllerRecord", "    controller_id  int32"),),
}  # fmt: skip
"""Record type -> layouts from the newest to the oldest."""
