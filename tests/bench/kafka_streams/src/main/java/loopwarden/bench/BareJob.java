package loopwarden.bench;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** The job without detection on Kafka Streams: the last calls of each run in RocksDB, and a decision now and then. */
public final class BareJob {
    private static final int CALLS = 30;
    private static final int ENTRY = 16;
    private static final byte[] DECISION = ("{\"message\":\"" + "x".repeat(900) + "\"}").getBytes();

    @JsonIgnoreProperties(ignoreUnknown = true)
    public static final class Data {
        public String run_id;
        public String tool;
        public String args_hash;
        public String call_id;
        public String agent_id;
        public String outcome_hash;
    }

    @JsonIgnoreProperties(ignoreUnknown = true)
    public static final class Event {
        public String specversion;
        public String id;
        public String source;
        public String type;
        public String time;
        public String sequence;
        public Data data;
    }

    static final class Keeper implements Processor<byte[], byte[], byte[], byte[]> {
        private final ObjectReader reader = new ObjectMapper().readerFor(Event.class);
        private final int every;
        private ProcessorContext<byte[], byte[]> context;
        private KeyValueStore<byte[], byte[]> runs;
        // Of all partitions together: there is one thread.
        private static long count;

        Keeper(int every) {
            this.every = every;
        }

        @Override
        public void init(ProcessorContext<byte[], byte[]> context) {
            this.context = context;
            this.runs = context.getStateStore("runs");
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            Event event;
            try {
                event = reader.readValue(record.value());
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
            byte[] old = runs.get(record.key());
            int kept = old == null ? 0 : Math.min(old.length, (CALLS - 1) * ENTRY);
            ByteBuffer state = ByteBuffer.allocate(kept + ENTRY);
            if (kept > 0) {
                state.put(old, old.length - kept, kept);
            }
            state.put(half(event.data.args_hash)).put(half(event.data.outcome_hash));
            runs.put(record.key(), state.array());
            if (++count % every == 0) {
                context.forward(record.withValue(DECISION));
            }
        }

        private static byte[] half(String hash) {
            return hash == null ? new byte[8] : Arrays.copyOf(HexFormat.of().parseHex(hash), 8);
        }
    }

    public static void main(String[] options) {
        Map<String, String> given = new HashMap<>();
        for (int at = 0; at < options.length; at += 2) {
            given.put(options[at].substring(2), options[at + 1]);
        }
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, given.get("group"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given.get("bootstrap"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, given.get("state-dir"));
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, (int) (1000 * Double.parseDouble(given.get("commit-interval"))));
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64 * 1024 * 1024);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", (int) (1000 * Double.parseDouble(given.get("session-timeout"))));
        settings.put("heartbeat.interval.ms", (int) (250 * Double.parseDouble(given.get("session-timeout"))));

        var bytes = Serdes.ByteArray();
        int every = Integer.parseInt(given.get("every"));
        Topology topology = new Topology();
        topology.addSource("events", bytes.deserializer(), bytes.deserializer(), given.get("input"));
        topology.addProcessor("keeper", () -> new Keeper(every), "events");
        topology.addStateStore(
                Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("runs"), bytes, bytes).withCachingEnabled(), "keeper");
        topology.addSink("decisions", given.get("decisions"), bytes.serializer(), bytes.serializer(), "keeper");
        KafkaStreams streams = new KafkaStreams(topology, settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
