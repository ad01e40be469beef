/* What a run of headers says as a whole: how much of it follows the rules, and a summary. */
#include "kafkalog.h"

#define UNKNOWN INT64_MIN /* in place of an offset that is not known */

/* How many batches from the first on have no finding by `codec.rules.batches`; they count as checked, and `expected` and
 * `leader_epoch` move behind them.  With `gaps` offsets may be missing before them, which is information only. */
EXPORTED int64_t sound_prefix(int64_t *cells, int64_t stride, int64_t columns, struct continuity *continuity, int64_t gaps) {
    const struct batches batches = batches_of(cells, stride, columns);
    const int64_t base = continuity->base_offset, next_segment = continuity->next_segment;
    if (columns == 0)
        return 0;
    int64_t expected = continuity->expected == UNKNOWN ? batches.base_offset[0] : continuity->expected;
    if (!gaps && continuity->last_offset != UNKNOWN && continuity->last_offset != expected - 1)
        return 0; /* behind a repeat: what comes is another one, or leaves a gap */
    const bool begins = continuity->last_offset == UNKNOWN;
    int64_t epoch = continuity->leader_epoch, last_taken = UNKNOWN, number = 0;
    for (; number < columns; number++) {
        const int64_t first = batches.base_offset[number], delta = batches.last_offset_delta[number], last = first + delta;
        const int64_t records = batches.records_count[number];
        if (batches.magic[number] != BATCH_MAGIC || !is_known_codec(batches.attributes[number] & CODEC_MASK))
            break;
        if (first < 0 || delta < 0 || last < first || records < 0 || records > delta + 1)
            break;
        if (base != UNKNOWN && (first < base || last - base > MAX_RELATIVE_OFFSET))
            break;
        if (next_segment != UNKNOWN && last >= next_segment)
            break;
        if (first != expected) {
            if (first < expected || (!gaps && !(number == 0 && begins)))
                break;
            /* behind a gap the next batch tells whether an offset was raised, which the last one of a run does not have */
            if (number + 1 == columns || batches.base_offset[number + 1] <= last)
                break;
        }
        if (batches.partition_leader_epoch[number] < epoch)
            break;
        epoch = batches.partition_leader_epoch[number];
        last_taken = last;
        expected = last + 1;
    }
    if (number > 0) {
        continuity->last_offset = last_taken;
        continuity->leader_epoch = epoch;
    }
    return number;
}

/* Numbers of the batches behind the first that do not begin where the one before them ends; how many. */
EXPORTED int64_t gaps_of_run(int64_t *cells, int64_t stride, int64_t columns, int64_t *numbers) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t count = 0;
    for (int64_t number = 1; number < columns; number++)
        if (batches.base_offset[number] != batches.base_offset[number - 1] + batches.last_offset_delta[number - 1] + 1)
            numbers[count++] = number;
    return count;
}

/* Count the batches of each codec in `codecs`, and find the smallest first and the largest timestamp of the batches that
 * have one, as `BatchHeader.first_timestamp` tells it; how many have one. */
EXPORTED int64_t summarize_run(int64_t *cells, int64_t stride, int64_t columns, int64_t codecs[CODEC_MASK + 1],
                               int64_t times[2]) {
    const struct batches batches = batches_of(cells, stride, columns);
    int64_t known = 0, smallest = INT64_MAX, largest = INT64_MIN;
    for (int64_t number = 0; number < columns; number++) {
        const int64_t attributes = batches.attributes[number], newest = batches.max_timestamp[number];
        codecs[attributes & CODEC_MASK]++;
        if (newest < 0)
            continue;
        known++;
        /* the first record of a batch may have no time where others have one */
        const bool is_told = (attributes & (TIMESTAMP_TYPE_FLAG | DELETE_HORIZON_FLAG)) == 0;
        const int64_t oldest = is_told && batches.base_timestamp[number] >= 0 ? batches.base_timestamp[number] : newest;
        smallest = least(smallest, oldest);
        largest = most(largest, newest);
    }
    times[0] = smallest;
    times[1] = largest;
    return known;
}
