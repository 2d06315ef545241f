// Calls of beanstalkc, and of the older BeanstalkClient, against the broker at a port; ends with an error where an answer is not what it
// should be.

import com.dinstone.beanstalkc.BeanstalkClient;
import com.dinstone.beanstalkc.BeanstalkClientFactory;
import com.dinstone.beanstalkc.Configuration;
import com.surftools.BeanstalkClientImpl.ClientImpl;

public class Session {
    static void must(boolean good, String what) {
        if (!good) {
            throw new AssertionError(what);
        }
    }

    static void beanstalkc(int port) {
        Configuration configuration = new Configuration();
        configuration.setServiceHost("127.0.0.1");
        configuration.setServicePort(port);
        BeanstalkClient client = new BeanstalkClientFactory(configuration).createBeanstalkClient();
        must(client.useTube("java-jobs") && client.watchTube("java-jobs") && client.ignoreTube("default"), "tubes");
        byte[] body = "hello\r\nworld".getBytes();
        long id = client.putJob(3, 0, 5, body);
        com.dinstone.beanstalkc.Job job = client.reserveJob(1);
        must(job.getId() == id && java.util.Arrays.equals(job.getData(), body), "reserve");
        must(client.touchJob(id), "touch");
        must(client.releaseJob(id, 3, 0), "release");
        must(client.reserveJob(1).getId() == id, "reserve again");
        must(client.buryJob(id, 3), "bury");
        must(client.peekBuried().getId() == id, "peek buried");
        must(client.kick(10) == 1, "kick");
        must(client.reserveJob(1).getId() == id, "reserve what was kicked");
        must("3".equals(client.statsJob(id).get("reserves")), "stats-job");
        must(client.deleteJob(id), "delete");
        must(client.peek(id) == null, "peek what is gone");
        must(client.reserveJob(0) == null, "reserve from an empty tube");
        long later = client.putJob(1, 100, 60, body);
        must(client.peekDelayed().getId() == later, "peek delayed");
        must("1".equals(client.statsTube("java-jobs").get("current-jobs-delayed")), "stats-tube");
        must("2".equals(client.stats().get("total-jobs")), "stats");
        must(client.listTubes().contains("java-jobs") && client.listTubeUsed().equals("java-jobs"), "lists");
        client.close();
    }

    static void older(int port) {
        ClientImpl client = new ClientImpl("127.0.0.1", port);
        client.useTube("old-jobs");
        must(client.watch("old-jobs") == 2 && client.ignore("default") == 1, "tubes");
        long id = client.put(3, 0, 5, "hello".getBytes());
        com.surftools.BeanstalkClient.Job job = client.reserve(1);
        must(job.getJobId() == id && new String(job.getData()).equals("hello"), "reserve");
        must(client.bury(id, 3) && client.kick(5) == 1, "bury and kick");
        must(client.reserve(null).getJobId() == id && client.delete(id), "reserve and delete");
        must(client.peekReady() == null && client.reserve(0) == null, "an empty tube");
        must(client.statsTube("old-jobs").get("total-jobs").equals("1"), "stats-tube");
        client.close();
    }

    public static void main(String[] arguments) {
        beanstalkc(Integer.parseInt(arguments[0]));
        older(Integer.parseInt(arguments[0]));
        System.out.println("all is well");
        // Its threads would linger.
        System.exit(0);
    }
}
