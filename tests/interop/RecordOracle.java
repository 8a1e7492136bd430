package tests.interop;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Iterator;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Utils;

/** Reads record sets, and builds some, as java_records.py asks: what both files hold stands there. */
public class RecordOracle {
    private static final byte READ = 0;

    public static void main(String[] args) throws Exception {
        DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(args[0])));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(args[1])));
        int count = in.readInt();
        for (int at = 0; at < count; at++) {
            byte[] set = in.readByte() == READ ? sized(in) : build(in);
            write(out, set);
            answer(out, set);
        }
        out.close();
    }

    private static byte[] build(DataInputStream in) throws IOException {
        byte magic = in.readByte();
        Compression codec = codec(in.readByte());
        boolean appended = in.readBoolean();
        boolean transactional = in.readBoolean();
        long appendTime = in.readLong();
        long base = in.readLong();
        TimestampType kind = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
            : appended ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(512), magic, codec, kind, base, appendTime,
            transactional ? 7L : -1L, (short) (transactional ? 3 : -1), transactional ? 0 : -1,
            transactional, 5);
        int count = in.readInt();
        for (int at = 0; at < count; at++) {
            long offset = in.readLong();
            long timestamp = in.readLong();
            byte[] key = sized(in);
            byte[] value = sized(in);
            Header[] headers = new Header[in.readInt()];
            for (int each = 0; each < headers.length; each++) {
                byte[] name = sized(in);
                headers[each] = new RecordHeader(new String(name, "UTF-8"), sized(in));
            }
            builder.appendWithOffset(offset, new SimpleRecord(timestamp, key, value, headers));
        }
        return Utils.toArray(builder.build().buffer());
    }

    /** Janino calls no static method of an interface. */
    private static Compression codec(byte id) throws IOException {
        try {
            Method of = Compression.class.getMethod("of", new Class[] {CompressionType.class});
            Object builder = of.invoke(null, new Object[] {CompressionType.forId(id)});
            return ((Compression.Builder) builder).build();
        } catch (ReflectiveOperationException error) {
            throw new IOException(error);
        }
    }

    private static void answer(DataOutputStream out, byte[] set) throws IOException {
        ByteArrayOutputStream kept = new ByteArrayOutputStream();
        String failure = "";
        try {
            read(new DataOutputStream(kept), set);
        } catch (Throwable error) {
            failure = error.toString();
            kept.reset();
        }
        write(out, failure.getBytes("UTF-8"));
        write(out, kept.toByteArray());
    }

    private static void read(DataOutputStream out, byte[] set) throws IOException {
        Iterator batches = MemoryRecords.readableRecords(ByteBuffer.wrap(set)).batches().iterator();
        while (batches.hasNext()) {
            RecordBatch batch = (RecordBatch) batches.next();
            batch.ensureValid();
            Iterator records = batch.iterator();
            while (records.hasNext()) {
                org.apache.kafka.common.record.internal.Record record =
                    (org.apache.kafka.common.record.internal.Record) records.next();
                record.ensureValid();
                out.writeLong(record.offset());
                out.writeLong(record.timestamp());
                write(out, record.hasKey() ? Utils.toArray(record.key()) : null);
                write(out, record.hasValue() ? Utils.toArray(record.value()) : null);
                Header[] headers = record.headers();
                out.writeInt(headers.length);
                for (int each = 0; each < headers.length; each++) {
                    write(out, headers[each].key().getBytes("UTF-8"));
                    write(out, headers[each].value());
                }
            }
        }
    }

    private static byte[] sized(DataInputStream in) throws IOException {
        int size = in.readInt();
        if (size < 0) {
            return null;
        }
        byte[] content = new byte[size];
        in.readFully(content);
        return content;
    }

    private static void write(DataOutputStream out, byte[] content) throws IOException {
        if (content == null) {
            out.writeInt(-1);
        } else {
            out.writeInt(content.length);
            out.write(content);
        }
    }
}
