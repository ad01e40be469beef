//@file >=4.1 <4.2
package interop;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.internals.ScriptedAccumulator;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/**
 * Runs of Kafka's own accumulator: "runs" [{partitions, batch_size, randoms, steps}], a step is {k, v, h, ts} or {drain: true}.
 * Of each run the partition of every record in order, and of every drain (the last one comes by itself) the batches.
 */
final class Accumulate implements Operation {
    @Override
    public Object run(Request request) throws Throwable {
        List<Object> result = new ArrayList<>();
        for (Map<String, Object> fields : request.objects("runs")) result.add(one(new Request(fields)));
        return Json.object("runs", result);
    }

    private static Object one(Request run) throws Throwable {
        Iterator<Object> given = new ArrayList<Object>(run.list("randoms")).iterator();
        Iterator<Integer> randoms = new Iterator<>() {
            @Override
            public boolean hasNext() {
                return given.hasNext();
            }

            @Override
            public Integer next() {
                return ((Number) given.next()).intValue();
            }
        };
        ScriptedAccumulator accumulator = new ScriptedAccumulator((int) run.number("partitions", 1), (int) run.number("batch_size", 16384), randoms);
        List<Object> places = new ArrayList<>();
        List<Object> drains = new ArrayList<>();
        for (Map<String, Object> fields : run.objects("steps")) {
            Request step = new Request(fields);
            if (step.flag("drain", false)) {
                drains.add(accumulator.drain());
                continue;
            }
            List<Header> headers = new ArrayList<>();
            for (Object header : step.list("h")) headers.add(new RecordHeader(((List<?>) header).get(0).toString(), Request.decode(((List<?>) header).get(1))));
            places.add(accumulator.append(step.bytes("k"), step.bytes("v"), headers.toArray(new Header[0]), step.number("ts", 0)));
        }
        drains.add(accumulator.drain());
        return Json.object("places", places, "drains", drains);
    }
}
