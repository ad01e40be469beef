package io.aiven.kafka.tieredstorage.manifest.index.serde;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.aiven.kafka.tieredstorage.manifest.index.ChunkIndex;
import io.aiven.kafka.tieredstorage.manifest.index.FixedSizeChunkIndex;
import io.aiven.kafka.tieredstorage.manifest.index.VariableSizeChunkIndex;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** Chunk indexes as the plugin writes them, each with where the plugin finds its chunks, a line of JSON each. */
public class ChunkIndexes {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private static void print(ChunkIndex index) throws Exception {
        List<List<Integer>> chunks = new ArrayList<>();
        for (var each : index.chunks()) {
            chunks.add(List.of(
                each.originalPosition, each.originalSize, each.transformedPosition, each.transformedSize));
        }
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("index", MAPPER.readTree(MAPPER.writeValueAsString(index)));
        row.put("chunks", chunks);
        System.out.println(MAPPER.writeValueAsString(row));
    }

    private static void variable(int chunkSize, int fileSize, Integer... sizes) throws Exception {
        print(new VariableSizeChunkIndex(chunkSize, fileSize, Arrays.asList(sizes)));
    }

    public static void main(String[] arguments) throws Exception {
        variable(100, 100, 30);
        variable(100, 99, 7);
        variable(100, 200, 30, 40);
        variable(100, 201, 100, 40, 1);
        variable(1000, 3500, 300, 900, 301, 20);
        variable(100000, 400000, 1, 70000, 255, 256);
        variable(20000000, 81000000, 5, 17000000, 65540, 20000000, 9);
        variable(100, 350, 0, 0, 0, 0);
        Random random = new Random(7);
        variable(4194304, 2147483647, random.ints(512, 0, 300).map(each -> 1048576 + each).boxed().toArray(Integer[]::new));
        print(new FixedSizeChunkIndex(100, 250, 110, 80));
        print(new FixedSizeChunkIndex(100, 300, 128, 128));
        print(new FixedSizeChunkIndex(100, 40, 128, 68));
    }
}
