package interop;

import java.io.File;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A JSON object with typed access; numbers may also arrive as text, as in a properties file. */
final class Request {
    final Map<String, Object> fields;

    Request(Map<String, Object> fields) {
        this.fields = fields;
    }

    boolean has(String name) {
        return fields.get(name) != null;
    }

    Object get(String name) {
        return fields.get(name);
    }

    long number(String name, long otherwise) {
        Object value = fields.get(name);
        return value == null ? otherwise : value instanceof Number ? ((Number) value).longValue() : Long.parseLong(value.toString());
    }

    boolean flag(String name, boolean otherwise) {
        Object value = fields.get(name);
        return value == null ? otherwise : value instanceof Boolean ? (Boolean) value : number(name, 0) != 0;
    }

    String text(String name, String otherwise) {
        Object value = fields.get(name);
        return value == null ? otherwise : value.toString();
    }

    String text(String name) {
        if (!has(name)) throw new IllegalArgumentException("the request lacks '" + name + "'");
        return text(name, null);
    }

    File directory(String name) {
        return new File(text(name)).getAbsoluteFile();
    }

    @SuppressWarnings("unchecked")
    Request object(String name) {
        Object value = fields.get(name);
        return new Request(value == null ? new HashMap<>() : (Map<String, Object>) value);
    }

    @SuppressWarnings("unchecked")
    List<Map<String, Object>> objects(String name) {
        return (List<Map<String, Object>>) fields.getOrDefault(name, List.of());
    }

    @SuppressWarnings("unchecked")
    List<Object> list(String name) {
        return (List<Object>) fields.getOrDefault(name, List.of());
    }

    byte[] bytes(String name) {
        return decode(fields.get(name));
    }

    static byte[] decode(Object base64) {
        return base64 == null ? null : Base64.getDecoder().decode(base64.toString());
    }
}
