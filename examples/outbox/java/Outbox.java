// An outbox and a worker: `Outbox shop URL ORDERS`, `Outbox worker URL HOST:PORT`. See ../README.md.

import com.surftools.BeanstalkClient.Job;
import com.surftools.BeanstalkClientImpl.ClientImpl;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.regex.Pattern;

public class Outbox {
    private static final String CHECK_VIOLATION = "23514";
    private static final Pattern BODY = Pattern.compile("\\{\"order\":\\s*(\\d{1,18})}");
    /** Errors that the message is at fault for: its data, or what it refers to. */
    private static final Pattern REFUSED = Pattern.compile("2[23].*");

    /** An order, its message and what it takes from stock are committed together, or nothing. */
    private static void order(Connection database) throws SQLException {
        long order;
        try (var insert = database.prepareStatement("INSERT INTO orders (goods) VALUES (1) RETURNING id"); var found = insert.executeQuery()) {
            found.next();
            order = found.getLong(1);
        }
        try (var put = database.prepareStatement("SELECT krarup.put(?, ?)")) {
            put.setString(1, "bills");
            put.setString(2, "{\"order\": " + order + "}");
            put.execute();
        }
        try (var take = database.prepareStatement("UPDATE stock SET quantity = quantity - 1 WHERE goods = 1")) {
            take.executeUpdate();
        }
        database.commit();
    }

    private static void shop(Connection database, int orders) throws SQLException {
        database.setAutoCommit(false);
        int taken = 0;
        for (int number = 0; number < orders; number++) {
            try {
                order(database);
                taken++;
            } catch (SQLException error) {
                database.rollback();
                if (!CHECK_VIOLATION.equals(error.getSQLState())) {
                    throw error;
                }
            }
        }
        System.out.println(taken + " orders taken, " + (orders - taken) + " refused");
    }

    private static void worker(Connection database, String broker) throws SQLException {
        String[] where = broker.split(":");
        ClientImpl queue = new ClientImpl(where[0], Integer.parseInt(where[1]));
        queue.watch("bills");
        queue.ignore("default");
        int done = 0;
        for (Job job; (job = queue.reserve(2)) != null; ) {
            var body = BODY.matcher(new String(job.getData(), StandardCharsets.UTF_8));
            if (!body.matches()) {
                // It will not get better: kept for people to look at.
                queue.bury(job.getJobId(), 1024);
                continue;
            }
            try (var bill = database.prepareStatement("INSERT INTO bills (order_id) VALUES (?) ON CONFLICT DO NOTHING")) {
                bill.setLong(1, Long.parseLong(body.group(1)));
                bill.executeUpdate();
            } catch (SQLException error) {
                System.err.println(error.getMessage());
                if (REFUSED.matcher(String.valueOf(error.getSQLState())).matches()) {
                    queue.bury(job.getJobId(), 1024);
                } else {
                    queue.release(job.getJobId(), 1024, 5);
                }
                continue;
            }
            queue.delete(job.getJobId());
            done++;
        }
        queue.close();
        System.out.println(done + " messages done");
    }

    public static void main(String[] arguments) throws SQLException {
        try (var database = DriverManager.getConnection(arguments[1])) {
            if (arguments[0].equals("shop")) {
                shop(database, Integer.parseInt(arguments[2]));
            } else {
                worker(database, arguments[2]);
            }
        }
        // The client's threads would linger.
        System.exit(0);
    }
}
