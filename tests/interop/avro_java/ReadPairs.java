// Reads payloads with a writer's and a reader's schema, as Java's Avro resolves them.
// Each line in: {"writer": schema, "reader": schema, "payloads": [hex, ...]}; each line out: [value or {"error": ...}, ...].
// A value: null, boolean, text; a number as text; {"bytes": hex}; {"record": {...}}; {"array": [...]}; {"map": {...}};
// in a union of several types beside null {"branch": number among those that are not null, "value": ...}.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.DecoderFactory;

public class ReadPairs {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answers(JSON.readTree(line))));
        }
        out.flush();
    }

    private static ArrayNode answers(JsonNode pair) {
        ArrayNode found = JSON.createArrayNode();
        Schema writer;
        Schema reader;
        try {
            writer = new Schema.Parser().parse(pair.get("writer").toString());
            reader = new Schema.Parser().parse(pair.get("reader").toString());
        } catch (RuntimeException error) {
            pair.get("payloads").forEach(each -> found.addObject().put("invalid", error.toString()));
            return found;
        }
        for (JsonNode each : pair.get("payloads")) {
            try {
                byte[] payload = HexFormat.of().parseHex(each.asText());
                Object value = new GenericDatumReader<Object>(writer, reader).read(
                        null, DecoderFactory.get().binaryDecoder(payload, null));
                found.add(shown(reader, value));
            } catch (Exception error) {
                found.addObject().put("error", error.toString());
            }
        }
        return found;
    }

    private static JsonNode shown(Schema schema, Object value) {
        switch (schema.getType()) {
            case UNION: return ofUnion(schema, value);
            case RECORD: return ofRecord(schema, (IndexedRecord) value);
            case ARRAY: {
                ArrayNode items = JSON.createArrayNode();
                ((Collection<?>) value).forEach(each -> items.add(shown(schema.getElementType(), each)));
                return JSON.createObjectNode().set("array", items);
            }
            case MAP: {
                ObjectNode entries = JSON.createObjectNode();
                ((Map<?, ?>) value).forEach((key, each) -> entries.set(key.toString(), shown(schema.getValueType(), each)));
                return JSON.createObjectNode().set("map", entries);
            }
            case BYTES: {
                ByteBuffer bytes = ((ByteBuffer) value).duplicate();
                byte[] copy = new byte[bytes.remaining()];
                bytes.get(copy);
                return JSON.createObjectNode().put("bytes", HexFormat.of().formatHex(copy));
            }
            case FIXED:
                return JSON.createObjectNode().put("bytes", HexFormat.of().formatHex(((GenericFixed) value).bytes()));
            case NULL: return JSON.nullNode();
            case BOOLEAN: return JSON.getNodeFactory().booleanNode((Boolean) value);
            case FLOAT: return JSON.getNodeFactory().textNode(Double.toString((Float) value));
            default: return JSON.getNodeFactory().textNode(value.toString());
        }
    }

    private static JsonNode ofRecord(Schema schema, IndexedRecord value) {
        ObjectNode fields = JSON.createObjectNode();
        for (Schema.Field each : schema.getFields()) {
            fields.set(each.name(), shown(each.schema(), value.get(each.pos())));
        }
        return JSON.createObjectNode().set("record", fields);
    }

    private static JsonNode ofUnion(Schema schema, Object value) {
        int number = GenericData.get().resolveUnion(schema, value);
        Schema branch = schema.getTypes().get(number);
        if (branch.getType() == Schema.Type.NULL) {
            return JSON.nullNode();
        }
        long before = schema.getTypes().subList(0, number).stream().filter(each -> each.getType() != Schema.Type.NULL).count();
        long several = schema.getTypes().stream().filter(each -> each.getType() != Schema.Type.NULL).count();
        if (several < 2) {
            return shown(branch, value);
        }
        ObjectNode found = JSON.createObjectNode().put("branch", before);
        return found.set("value", shown(branch, value));
    }
}
